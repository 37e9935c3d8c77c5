-- What the examples stand on: a table of an application's own, here the documents
-- of matters. The rail never looks into it.
CREATE SCHEMA app;
CREATE TABLE app.documents (
  document_id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  firm_id uuid NOT NULL,
  matter_id uuid NOT NULL,
  name text NOT NULL
);
