// Training scripts wait for `upd-log` and `finish-job`, which go a short way: neither the table of commands nor anything else of
// the terminal is loaded.

import type { LabServices } from '../../lab/lab.ts';

/** Runs one command and resolves with its exit code (app/errors.ts). Throws for our own bugs only. */
export async function runTpu(argv: readonly string[], services: LabServices): Promise<number> {
  const [first, ...rest] = argv;
  const asksHelp = rest.includes('-h') || rest.includes('--help');
  if ((first === 'upd-log' || first === 'finish-job') && !asksHelp) {
    const { tell } = await import('./commands/upd-log.ts');
    return tell(first, rest, services);
  }
  const { dispatch } = await import('./dispatch.ts');
  return dispatch(argv, services);
}
