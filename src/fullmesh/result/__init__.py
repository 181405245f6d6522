"""Handle result.json (docs/result.md): its types, its schema, its reader and its builder."""
