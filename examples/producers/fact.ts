// A fact from TypeScript, with node-postgres (npm install pg @types/pg):
//   DATABASE_URL=postgres://... npx tsx fact.ts FIRM MATTER lease.pdf
// Nothing here needs an annotation, so it is a JavaScript module as well.
import pg from "pg";

const [firm, matter, name] = process.argv.slice(2);
if (!firm || !matter || !name) {
  throw new Error("usage: fact.ts FIRM MATTER NAME");
}

// One client for the whole transaction: pool.query() may take another session for
// each statement, and the fact would not stand or fall with the document.
const client = new pg.Client({ connectionString: process.env.DATABASE_URL });
await client.connect();
try {
  await client.query("BEGIN");
  await client.query(
    "INSERT INTO app.documents (firm_id, matter_id, name) VALUES ($1, $2, $3)",
    [firm, matter, name],
  );
  const fact = await client.query(
    `INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name)
     VALUES ($1, $2, 'document.uploaded') RETURNING event_id`,
    [firm, matter],
  );
  await client.query("COMMIT");
  console.log(fact.rows[0].event_id);
} finally {
  await client.end(); // a transaction that did not commit ends with its session
}
