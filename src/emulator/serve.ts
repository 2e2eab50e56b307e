// The emulator as a program of its own: it says READY when it answers, and leaves a note where others find it.

import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Emulator, EmulatorOptions } from './contract.ts';
import { startEmulator } from './start.ts';

export interface ServeOptions extends EmulatorOptions {
  /** The id of this process, for `endpoint.json`. */
  readonly pid: number;
  /** Told `READY http://127.0.0.1:PORT`, with a line end, once the API answers. */
  readonly write: (text: string) => void;
}

/**
 * Starts the emulator, writes `<stateDir>/endpoint.json` as `{ url, sshPort, pid }`, then says READY.
 * The file is removed on close; after a kill -9 it stays, and its pid tells that nobody is there.
 */
export async function serveEmulator(options: ServeOptions): Promise<Emulator> {
  const { pid, write, ...rest } = options;
  const emulator = await startEmulator(rest);
  const path = join(options.stateDir, 'endpoint.json');
  mkdirSync(options.stateDir, { recursive: true });
  writeFileSync(`${path}.new`, `${JSON.stringify({ url: emulator.url, sshPort: emulator.sshPort, pid })}\n`);
  renameSync(`${path}.new`, path);
  write(`READY ${emulator.url}\n`);
  return {
    ...emulator,
    async close() {
      rmSync(path, { force: true });
      await emulator.close();
    },
  };
}
