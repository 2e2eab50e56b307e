import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openStore } from '../../src/store/store.ts';
import { storeSuite } from './suite.ts';

storeSuite('SQLite', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'jobman-store-'));
  const file = join(folder, 'home', 'state.db');
  const store = openStore({ file });
  const other = openStore({ file });
  return {
    store,
    other,
    async close() {
      await store.close();
      await other.close();
      await rm(folder, { recursive: true });
    },
  };
});

// As the simulator uses it: gone when it is closed, so that both stores are the same one.
storeSuite('SQLite in memory', () => {
  const store = openStore({ file: ':memory:' });
  return Promise.resolve({ store, other: store, close: () => store.close() });
});
