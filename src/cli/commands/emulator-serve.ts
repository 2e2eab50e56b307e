// emulator serve: the built-in cloud in the foreground.

import type { Cli } from '../context.ts';

export interface EmulatorServeFlags {
  readonly port: number | undefined;
  readonly sshPort: number | undefined;
  readonly seed: number | undefined;
  readonly speed: number | undefined;
  readonly state: string | undefined;
}

export async function serve(cli: Cli, flags: EmulatorServeFlags): Promise<number> {
  const { port, sshPort, seed, speed, state } = flags;
  const emulator = await cli.services.emulator();
  return emulator.serve({
    ...(port === undefined ? {} : { port }),
    ...(sshPort === undefined ? {} : { sshPort }),
    ...(seed === undefined ? {} : { seed }),
    ...(speed === undefined ? {} : { speed }),
    ...(state === undefined ? {} : { state }),
  });
}
