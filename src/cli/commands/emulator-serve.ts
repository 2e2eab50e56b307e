// emulator serve: the built-in cloud in the foreground.

import type { Cli } from '../context.ts';
import type { EmulatorServeFlags } from '../table/flags.ts';

export async function serve(cli: Cli, flags: EmulatorServeFlags): Promise<number> {
  const emulator = await cli.services.emulator();
  const { port, sshPort, seed, speed, state, hosts, gcsfuse, schedule, idleExit } = flags;
  return emulator.serve({
    ...(port === undefined ? {} : { port }),
    ...(sshPort === undefined ? {} : { sshPort }),
    ...(seed === undefined ? {} : { seed }),
    ...(speed === undefined ? {} : { speed }),
    ...(state === undefined ? {} : { state }),
    ...(hosts === undefined ? {} : { hosts }),
    ...(gcsfuse === undefined ? {} : { gcsfuse }),
    ...(schedule === undefined ? {} : { schedule }),
    ...(idleExit === undefined || idleExit === 'never' ? {} : { idleExitMs: idleExit }),
  });
}
