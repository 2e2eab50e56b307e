// controller run: the controller in the foreground, as a service manager or the background start runs it.

import type { Duration } from '../../core/time.ts';
import type { Cli } from '../context.ts';

/** Without the flag the settings say how long it stays when there is nothing to do; `never` is for a service manager. */
export async function run(cli: Cli, flags: { readonly idleExit?: Duration | 'never' | undefined }): Promise<number> {
  const controller = await cli.services.controller();
  const { idleExit } = flags;
  if (idleExit === 'never') return controller.run({ idleExitMs: null });
  return controller.run(idleExit === undefined ? {} : { idleExitMs: idleExit });
}
