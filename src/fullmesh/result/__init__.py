"""result.json (docs/result.md): its types, the schema that is made from them, its reader, and what builds it."""
