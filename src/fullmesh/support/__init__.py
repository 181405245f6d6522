"""Pack a support bundle: collect what a run left, replace identities, and write one archive."""
