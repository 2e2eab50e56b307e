// controller run: the controller in the foreground, as a service manager or the background start runs it.

import type { Duration } from '../../core/time.ts';
import type { Cli } from '../context.ts';

export interface ControllerRunFlags {
  readonly idleExit: Duration | 'never' | undefined;
}

/** Without the flag it stays: whoever runs it in the foreground ends it. */
export async function run(cli: Cli, flags: ControllerRunFlags): Promise<number> {
  const controller = await cli.services.controller();
  const { idleExit } = flags;
  return controller.run({ idleExitMs: idleExit === undefined || idleExit === 'never' ? null : idleExit });
}
