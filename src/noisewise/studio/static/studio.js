// Copy a command, show where a slider stands, begin with another model's example.
"use strict";

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const text = button.closest(".command").querySelector("code").textContent;
  const said = (words) => {
    button.textContent = words;
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  };
  navigator.clipboard.writeText(text).then(() => said("Copied"), () => said("Press Ctrl-C"));
});

const show = (slider) => {
  const step = slider.dataset.steps.trim().split(" ")[Number(slider.value)];
  document.getElementById(slider.id + "-now").textContent = step;
  slider.setAttribute("aria-valuetext", step);
};

document.querySelectorAll("[data-steps]").forEach(show);

document.addEventListener("input", (event) => {
  if (event.target.dataset.steps) show(event.target);
});

document.addEventListener("change", (event) => {
  const visit = event.target.dataset.visit;
  if (visit) location.assign(visit + encodeURIComponent(event.target.value));
});
