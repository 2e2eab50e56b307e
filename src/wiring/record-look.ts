// A look into the record by whoever has nothing to write there.

import { StoreError } from '../app/errors.ts';
import { openStore, type RecordStore } from '../store/store.ts';

/**
 * Looks into the record, which is opened for reading only; one of an earlier version is first brought up to date, as the
 * next command would. Rejects with StoreError when it cannot be read.
 */
export async function lookAtRecord<T>(file: string, look: (store: RecordStore) => Promise<T>): Promise<T> {
  try {
    return await inStore(openStore({ file, readOnly: true }), look);
  } catch (error) {
    if (!(error instanceof StoreError) || error.trouble !== 'older') throw error;
    return inStore(openStore({ file }), look);
  }
}

async function inStore<T>(store: RecordStore, look: (store: RecordStore) => Promise<T>): Promise<T> {
  try {
    return await look(store);
  } finally {
    await store.close();
  }
}
