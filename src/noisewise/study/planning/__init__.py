"""What privacy will cost, before anything is spent: simulated releases at a guessed truth.

No record is read here. The noise of one release, worked out before it is made, is another thing:
curator/plan.py.
"""

from noisewise.study.planning.plan import Plan, plan

__all__ = ["Plan", "plan"]
