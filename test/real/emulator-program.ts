// The emulator as a separate program, for tests that kill it: `emulator-program.ts STATE_DIR SPEED`.

import { serveEmulator } from '../../src/emulator/serve.ts';

const [stateDir = '', speed = '1'] = process.argv.slice(2);
const emulator = await serveEmulator({
  stateDir,
  speed: Number(speed),
  seed: 5,
  env: process.env,
  pid: process.pid,
  write: (text) => process.stdout.write(text),
});
process.on('SIGTERM', () => void emulator.close());
