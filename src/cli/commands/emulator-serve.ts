// emulator serve: the built-in cloud in the foreground.

import type { Duration } from '../../core/time.ts';
import type { Cli } from '../context.ts';

export interface EmulatorServeFlags {
  readonly port: number | undefined;
  readonly sshPort: number | undefined;
  readonly seed: number | undefined;
  readonly speed: number | undefined;
  readonly state: string | undefined;
  readonly hosts: 'process' | 'sshd' | undefined;
  readonly gcsfuse: string | undefined;
  readonly schedule: string | undefined;
  readonly idleExit: Duration | 'never' | undefined;
}

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
