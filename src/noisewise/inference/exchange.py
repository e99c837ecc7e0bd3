"""A posterior for other people's tools: ArviZ, and with it netCDF."""

import warnings
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from noisewise.artifact import checksum
from noisewise.model import notation

if TYPE_CHECKING:
    from noisewise.inference.posterior import Posterior


def to_arviz(posterior: "Posterior") -> Any:
    """An InferenceData, or with ArviZ 1.x a DataTree, with the draws and where they come from."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 0.23 announces 1.x on import
        import arviz

    held = posterior.chains()
    major = int(arviz.__version__.split(".")[0])
    made = arviz.from_dict({"posterior": held}) if major >= 1 else arviz.from_dict(posterior=held)
    made["posterior"].attrs.update(provenance(posterior))
    return made


def provenance(posterior: "Posterior") -> dict[str, str]:
    """Which release, prior, method and version the draws come from; what is not known is left
    out.
    """
    found = {
        "inference_library": "noisewise",
        "inference_library_version": version("noisewise"),
        "family": posterior.family.kind,
        "method": posterior.method,
    }
    if posterior.prior is not None:
        found["prior"] = notation.text_of(posterior.prior)
    try:
        sums = [checksum(one) for one in posterior.releases]
    except (TypeError, ValueError):  # a family of one's own that no file can hold
        sums = []
    return found | ({"release_sha256": ", ".join(sums)} if sums else {})
