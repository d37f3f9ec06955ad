"""The content of attributes, text or structure, read into messages, documents and texts."""
