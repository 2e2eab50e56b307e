import { userInfo } from 'node:os';
import { run } from '../src/cli/run.ts';
import type { Io, Services, Stream } from '../src/app/services.ts';
import { createServices } from '../src/wiring/services.ts';
import { version } from '../src/version.ts';
import { node, root, type Home } from './home.ts';

export interface InProcessCli {
  readonly services: Services;
  /** Throws with the output when the exit code is not 0. */
  run(args: readonly string[]): Promise<string>;
  close(): Promise<void>;
}

/** `overrides` replace services that are not measured. */
export function openInProcessCli(home: Home, overrides: Partial<Services> = {}): InProcessCli {
  let output = '';
  const stream: Stream = {
    write: (text) => (output += String(text)),
    flush: () => Promise.resolve(),
    isTerminal: false,
    size: () => ({ columns: 80, rows: 24 }),
    onResize: () => () => undefined,
    watchReader: () => () => undefined,
    closed: false,
  };
  const io: Io = {
    stdout: stream,
    stderr: stream,
    stdin: {
      isTerminal: false,
      line: () => Promise.resolve(null),
      bytes: async function* () {},
      keys: () => () => undefined,
      raw: async () => () => undefined,
    },
    env: home.env,
    cwd: root,
    user: userInfo().username,
    uid: userInfo().uid,
    userHome: userInfo().homedir,
    pid: process.pid,
    // Child processes run the bundle, as for a user; see src/main.ts.
    launcher: [node, '--no-memory-reducer', `${root}/dist/bundle/main.cjs`],
    version,
    onSignal: () => () => undefined,
    onUncaught: () => () => undefined,
    atExit: () => () => undefined,
    now: () => Date.now(),
    resourceUsage: () => ({ residentBytes: 0, heapBytes: 0, cpuSeconds: 0 }),
  };
  const services: Services = Object.assign(createServices(io), overrides);
  // Each command would choose the server again.
  services.useServer({ named: 'local' });
  services.useServer = () => undefined;
  return {
    services,
    async run(args) {
      output = '';
      const code = await run(args, services);
      if (code !== 0) throw new Error(`jobman ${args.join(' ')} ended with ${code}:\n${output}`);
      return output;
    },
    async close() {
      await (await services.client()).close();
    },
  };
}
