"""The studio's pages: each module has its addresses."""
