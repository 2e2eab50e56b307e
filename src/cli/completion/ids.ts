// What the shell may propose where a command takes a job.

import type { Context } from '../entry.ts';

/** Ids of the jobs in the list, and their names once a letter has been typed. Proposes nothing rather than failing. */
export async function jobIds(this: Context, partial: string): Promise<readonly string[]> {
  try {
    const client = await this.services.client();
    const { rows } = await client.list({});
    const ids = rows.map((row) => row.id);
    const names = partial === '' ? [] : rows.map((row) => row.name);
    return [...new Set([...ids, ...names])].filter((candidate) => candidate.startsWith(partial));
  } catch {
    return [];
  }
}
