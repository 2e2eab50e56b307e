// emulator serve: the built-in cloud in the foreground.

import { given } from '../../core/given.ts';
import type { Cli } from '../context.ts';
import type { EmulatorServeFlags } from '../table/flags.ts';

export async function serve(cli: Cli, flags: EmulatorServeFlags): Promise<number> {
  const { port, sshPort, seed, speed, state, hosts, gcsfuse, schedule, idleExit } = flags;
  const idleExitMs = idleExit === 'never' ? undefined : idleExit;
  const emulator = await cli.services.emulator();
  return emulator.serve(given({ port, sshPort, seed, speed, state, hosts, gcsfuse, schedule, idleExitMs }));
}
