/** `jobman dashboard` of a world, in a browser. */
import type { TestContext } from 'node:test';
import { openBrowser, type OpenPage } from './browser.ts';
import type { RunningCommand } from './jobman.ts';
import { openJobWorld, type JobWorld } from './jobs.ts';

export interface Dashboard {
  readonly world: JobWorld;
  readonly open: OpenPage;
  /** Logs a browser in, once. */
  readonly address: string;
  readonly command: RunningCommand;
}

/** Undefined if this machine has no Chromium. */
export async function openDashboard(t: TestContext): Promise<Dashboard | undefined> {
  const world = openJobWorld(t);
  // It runs until the end of the test.
  const command = world.start(['dashboard', '--no-browser'], { withinMs: 900_000 });
  world.atEnd(() => void command.child.kill('SIGKILL'));
  const open = await openBrowser(t, world);
  if (open === undefined) return undefined;
  await command.waitForOutput(/open\?code=\S+\n/);
  const [, address = ''] = /at (http\S+)/.exec(command.stdout) ?? [];
  return { world, open, address, command };
}
