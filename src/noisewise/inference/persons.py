"""What several records of one person mean for an answer."""

from collections.abc import Sequence

from noisewise.artifact import Release


def said_of_persons(releases: Sequence[Release]) -> str | None:
    """A clause; None where every person has one record, or nothing is known of them."""
    known = [one.privacy for one in releases if one.privacy is not None]
    several = [one for one in known if one.records_per_person > 1 or one.enforced]
    if not several:
        return None
    most = max(one.records_per_person for one in several)
    alike = "those of one person are taken for as unlike as those of several"
    if not any(one.enforced for one in several):
        return f"a person may have up to {most} records, and {alike}"
    kept = f"of each person at most {most} {'record is' if most == 1 else 'records are'} kept"
    answer = "the answer is of those, in which persons with many count for less than in the table"
    return f"{kept}, and {answer}" + ("" if most == 1 else f"; {alike}")
