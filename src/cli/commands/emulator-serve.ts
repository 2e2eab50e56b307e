// emulator serve: the built-in cloud in the foreground.

import type { Cli } from '../context.ts';

export interface EmulatorServeFlags {
  readonly port: number | undefined;
  readonly sshPort: number | undefined;
  readonly hosts: 'process' | 'sshd' | undefined;
  readonly seed: number | undefined;
  readonly speed: number | undefined;
  readonly state: string | undefined;
  readonly schedule: string | undefined;
}

export async function serve(cli: Cli, flags: EmulatorServeFlags): Promise<number> {
  const { port, sshPort, hosts, seed, speed, state, schedule } = flags;
  const emulator = await cli.services.emulator();
  return emulator.serve({
    ...(port === undefined ? {} : { port }),
    ...(sshPort === undefined ? {} : { sshPort }),
    ...(hosts === undefined ? {} : { hosts }),
    ...(seed === undefined ? {} : { seed }),
    ...(speed === undefined ? {} : { speed }),
    ...(state === undefined ? {} : { state }),
    ...(schedule === undefined ? {} : { schedule }),
  });
}
