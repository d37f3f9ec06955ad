"""Where a text has the words that a quotation claims, and how nearly."""
