// The `tpu` command from outside: arguments in, exit code out.
//
// `upd-log` and `finish-job` are called by training scripts, which wait for them: they go a short way, on which neither the
// table of commands nor anything else of the terminal is loaded.

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
