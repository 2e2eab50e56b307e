/** Tests of the store, which run on both databases. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, suite, test, type TestContext } from 'node:test';
import type { DatabaseAddress } from '../../src/store/open-database.ts';
import { openStore, type JobmanStore } from '../../src/store/store.ts';
import { requirePostgres } from './postgres.ts';

/** Defines the tests of a suite for SQLite and for PostgreSQL. Each call of `newAddress` gives an empty database. */
export function suiteOnBoth(name: string, define: (newAddress: () => Promise<DatabaseAddress>) => void): void {
  suite(`${name} on SQLite`, () => {
    const folders: string[] = [];
    after(() => folders.forEach((folder) => rmSync(folder, { recursive: true })));
    define(async () => {
      const folder = mkdtempSync(join(tmpdir(), 'jobman-store-'));
      folders.push(folder);
      return { file: join(folder, 'home', 'state.db') };
    });
  });
  let skip: string | undefined;
  const starting = requirePostgres({ skip: (message) => (skip = message) });
  suite(`${name} on PostgreSQL`, { skip: skip ?? false }, () => {
    define(async () => {
      const server = await starting;
      if (server === undefined) throw new Error('a skipped test runs');
      return { url: await server.emptyDatabase() };
    });
  });
}

/** Defines a test for both databases. The store has the installation id `abc123`. */
export function testStore(name: string, run: (store: JobmanStore, t: TestContext) => Promise<void>): void {
  const onStore = async (t: TestContext, address: DatabaseAddress) => {
    const store = openStore({ ...address, installation: 'abc123' });
    t.after(() => store.close());
    await run(store, t);
  };
  test(`${name} (SQLite)`, (t) => onStore(t, { file: ':memory:' }));
  test(`${name} (PostgreSQL)`, async (t) => {
    const server = await requirePostgres(t);
    if (server !== undefined) await onStore(t, { url: await server.emptyDatabase() });
  });
}
