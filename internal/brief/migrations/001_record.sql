-- The record of each matter, as the reference builder keeps it: documents and
-- their text page by page. The rail never reads these tables.

CREATE TABLE record.documents (
  document_id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  firm_id uuid NOT NULL,
  matter_id uuid NOT NULL,
  name text NOT NULL
    CONSTRAINT document_has_a_name CHECK (name <> '' AND octet_length(name) <= 1024),
  sha256 bytea NOT NULL
    CONSTRAINT document_sha256_is_32_bytes CHECK (octet_length(sha256) = 32),
  media_type text NOT NULL
    CONSTRAINT document_media_type_is_known CHECK (media_type IN ('text/plain', 'application/pdf')),
  pages integer NOT NULL
    CONSTRAINT document_has_pages CHECK (pages >= 1),
  added_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  replaced_at timestamptz,
  replaced_by uuid REFERENCES record.documents
    CONSTRAINT document_is_replaced_by_another CHECK (replaced_by <> document_id),
  deleted_at timestamptz,
  CONSTRAINT document_replacement_is_whole CHECK ((replaced_at IS NULL) = (replaced_by IS NULL))
);

-- The same file twice in one matter is one document; after it was replaced or
-- deleted it may come back.
CREATE UNIQUE INDEX document_once_in_a_matter ON record.documents (firm_id, matter_id, sha256)
  WHERE replaced_at IS NULL AND deleted_at IS NULL;

CREATE TABLE record.pages (
  document_id uuid NOT NULL REFERENCES record.documents,
  page_no integer NOT NULL
    CONSTRAINT page_numbers_start_at_one CHECK (page_no >= 1),
  text text NOT NULL,
  PRIMARY KEY (document_id, page_no)
);

-- Quotes are substrings of a page, so that a page must never change.
CREATE FUNCTION record.refuse() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'restrict_violation', CONSTRAINT = TG_NAME,
    MESSAGE = format('%s: the text of a page never changes', TG_NAME),
    HINT = 'store the new file as another document and mark this one replaced';
END $$;
CREATE TRIGGER page_is_immutable BEFORE UPDATE ON record.pages FOR EACH ROW EXECUTE FUNCTION record.refuse();
