// Training scripts wait for `upd-log` and `finish-job`, so these load neither the command table nor other terminal
// code.

import type { LabServices } from '../../lab/lab.ts';

/** Runs one command and returns its exit code (app/errors.ts). Throws only for bugs in jobman. */
export async function runTpu(argv: readonly string[], services: LabServices): Promise<number> {
  const [first, ...rest] = argv;
  const asksHelp = rest.includes('-h') || rest.includes('--help');
  if ((first === 'upd-log' || first === 'finish-job') && !asksHelp) {
    // The script runs on the machine of its controller, whatever server its login uses.
    services.useServer({ named: 'local' });
    const { runReportCommand } = await import('./commands/window-reports.ts');
    return runReportCommand(first, rest, services);
  }
  const { dispatch } = await import('./dispatch.ts');
  return dispatch(argv, services);
}
