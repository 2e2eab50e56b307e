// Original home: what acts on machines without writing to the record asks here first, because only a write finds that a home is a copy.

import { statSync } from 'node:fs';
import { StoreError } from '../app/errors.ts';
import { openRecordFile } from '../store/record-file.ts';

/**
 * Throws the StoreError of a copied home whose original is still there (store/copied-home.ts): both have the same jobs, so a change
 * from the copy would be one to the original's runs. A missing record and other trouble with it pass.
 */
export async function expectOriginal(file: string): Promise<void> {
  if ((statSync(file, { throwIfNoEntry: false })?.size ?? 0) === 0) return;
  const record = openRecordFile({ file });
  try {
    await record.write(() => Promise.resolve());
  } catch (error) {
    if (error instanceof StoreError && error.trouble === 'copied') throw error;
  } finally {
    await record.close();
  }
}
