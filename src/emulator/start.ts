import type { Emulator, EmulatorOptions } from './contract.ts';

/** Starts the emulator inside this process; resolves when the API answers. Throws when the folder or a port is taken. */
export function startEmulator(options: EmulatorOptions): Promise<Emulator> {
  return Promise.reject(new Error(`not yet: ${options.stateDir}`));
}
