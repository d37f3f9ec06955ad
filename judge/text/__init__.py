"""Reading words: tags, sentences, overlap, redaction. Pure."""
