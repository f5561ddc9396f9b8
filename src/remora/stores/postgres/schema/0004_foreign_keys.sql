-- Every earlier content belongs to something that the mirror holds. An item's source has no key: PostgreSQL would look it
-- up and lock it for every new item (docs/reading-speed.md has the numbers).

ALTER TABLE stored_revisions ADD CONSTRAINT revisions_of_an_item
FOREIGN KEY (source, item_id) REFERENCES stored_items (source, id);
ALTER TABLE document_revisions ADD CONSTRAINT revisions_of_a_document
FOREIGN KEY (source, key) REFERENCES documents (source, key);
