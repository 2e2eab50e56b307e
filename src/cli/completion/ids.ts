// Proposals where a command takes a job.

import type { PartialLine } from '../command.ts';

/** Ids of the jobs in the list, and their names once a letter has been typed. */
export async function jobIds({ services, partial }: PartialLine): Promise<readonly string[]> {
  try {
    const client = await services.client();
    const { rows } = await client.list({});
    const ids = rows.map((row) => row.id);
    const names = partial === '' ? [] : rows.map((row) => row.name);
    return [...new Set([...ids, ...names])];
  } catch {
    return [];
  }
}
