"""The analyst's half: from a release and a prior to a posterior. Nothing here sees a record, or the
curator's code.
"""
