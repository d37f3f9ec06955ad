"""What an attribute holds, as text or structure, read into messages, documents and quotable words."""
