import type { FinalRows } from '../app/ports.ts';

/** Loaded when the store needs them, because scripts of the lab wait for commands without lists. */
export async function finalRows(): Promise<FinalRows> {
  return (await import('../app/views.ts')).finalRows;
}
