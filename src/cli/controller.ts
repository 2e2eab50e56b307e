// The terminal never runs jobs, but it sees to it that somebody does.

import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Client } from '../app/client.ts';
import { JobmanError } from '../app/errors.ts';
import type { Duration } from '../core/time.ts';
import type { Cli } from './context.ts';

type Waker = Pick<Client, 'wake'>;

/** For a caller without a client: one is made when it is needed. */
export function wakerOf({ services }: Pick<Cli, 'services'>): Waker {
  return { wake: async () => (await services.client()).wake() };
}

/** Tells the controller that there is something to do; starts one where none is, and says so. */
export async function wake(cli: Cli, client: Waker): Promise<void> {
  const said = await client.wake();
  if (said !== null) cli.note(said);
}

/** A command that waits checks this often that a controller runs. */
export const controllerEvery: Duration = 5_000;

/** While a job is followed: a controller that died is replaced. A failure is said and tried again later. */
export async function keepController(cli: Cli, client: Waker, beforeNote: () => void = () => {}): Promise<void> {
  const said = await replaceDead(cli, client);
  if (said === null) return;
  beforeNote();
  cli.note(said);
}

async function replaceDead(cli: Cli, client: Waker): Promise<string | null> {
  try {
    const controller = await cli.services.controller();
    const { running } = await controller.status();
    return running ? null : await client.wake();
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    return error.message;
  }
}

/**
 * After a look at jobs: a controller that was killed is replaced, so that the next command of whatever kind brings it back.
 * One that left or was stopped takes its file with it and is not missed here, unless a command that wanted one was itself
 * ended (a second Ctrl-C) after it had knocked and before it could start one. `isNeeded`: something that was shown is not
 * settled; then a stopped controller is at least told of, since what was shown is what was last seen.
 */
export async function replaceKilled(cli: Cli, client: Waker, isNeeded = false): Promise<void> {
  if (mayHaveBeenKilled(cli)) await keepController(cli, client);
  else if (isNeeded) {
    cli.note(
      'No controller runs: this is what was last seen, and nobody acts on it. Start one: jobman controller start',
    );
  }
}

/** The same for a screen that is looked at for long: answers what stands beside its rows; null when all is well. */
export async function controllerNote(cli: Cli, client: Waker, isNeeded: boolean): Promise<string | null> {
  if (mayHaveBeenKilled(cli)) return replaceDead(cli, client);
  if (!isNeeded) return null;
  const controller = await cli.services.controller();
  const { running } = await controller.status();
  return running ? null : 'no controller runs: what was last seen';
}

function mayHaveBeenKilled({ services: { home } }: Cli): boolean {
  return existsSync(join(home, 'controller.json')) || hasKnock(join(home, 'wake'));
}

function hasKnock(folder: string): boolean {
  try {
    return readdirSync(folder).length > 0;
  } catch {
    return false;
  }
}
