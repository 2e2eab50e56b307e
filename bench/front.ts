// Front: the front door of jobman in this very process, for measurements in which one process says many commands.

import { userInfo } from 'node:os';
import { run } from '../src/cli/run.ts';
import type { Io, Services, Stream } from '../src/app/services.ts';
import { createServices } from '../src/wiring/services.ts';
import { version } from '../src/version.ts';
import { node, root, type Home } from './home.ts';

export interface Front {
  readonly services: Services;
  /** One command. Throws with its words when it does not end with 0. */
  say(words: readonly string[]): Promise<string>;
  close(): Promise<void>;
}

/** `changes` take the place of parts of the program that are not to be measured. */
export function openFront(home: Home, changes: Partial<Services> = {}): Front {
  let said = '';
  const stream: Stream = {
    write: (text) => (said += String(text)),
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
    userHome: userInfo().homedir,
    pid: process.pid,
    // What this process starts is the bundle, as when a person starts it: see src/main.ts.
    launcher: [node, '--no-memory-reducer', `${root}/dist/bundle/main.cjs`],
    version,
    onSignal: () => () => undefined,
    atExit: () => () => undefined,
    now: () => Date.now(),
  };
  const services: Services = Object.assign(createServices(io), changes);
  return {
    services,
    async say(words) {
      said = '';
      const code = await run(words, services);
      if (code !== 0) throw new Error(`jobman ${words.join(' ')} ended with ${code}:\n${said}`);
      return said;
    },
    async close() {
      await (await services.client()).close();
    },
  };
}
