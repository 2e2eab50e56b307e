import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Client } from '../app/client.ts';
import { JobmanError, StoreError } from '../app/errors.ts';
import type { Duration, Instant } from '../core/model/time.ts';
import type { Cli } from './context.ts';

type Waker = Pick<Client, 'wake'>;

/** For a caller without a client; creates the client when needed. */
export function createWaker({ services }: Pick<Cli, 'services'>): Waker {
  return { wake: async () => (await services.client()).wake() };
}

/** Starts a controller if none runs, and prints a note. A viewer may not, and need not if one runs. */
export async function wakeController(cli: Cli, client: Waker): Promise<void> {
  const message = await client.wake().catch(async (error: unknown) => {
    const isRefused = error instanceof JobmanError && error.errorCode === 'forbidden';
    if (isRefused && (await isControllerRunning(cli))) return null;
    throw error;
  });
  if (message !== null) cli.note(message);
}

/** Time between a waiting command's checks that a controller runs. */
const controllerCheckInterval: Duration = 5_000;

/** Replaces a dead or outdated controller while a command waits for a job. The first call checks at once. */
export function keepController(cli: Cli, client: Waker): (beforeNote: () => void) => Promise<void> {
  let checkedAt: Instant = Number.NEGATIVE_INFINITY;
  let lastNote: string | null = null;
  return async (beforeNote) => {
    if (cli.io.now() - checkedAt < controllerCheckInterval) return;
    checkedAt = cli.io.now();
    const note = await restartIfDead(cli, client, false);
    if (note !== null && note !== lastNote) {
      beforeNote();
      cli.note(note);
    }
    lastNote = note;
  };
}

/** A failure is returned and retried later. With `isNeeded` also the reason why a running one does nothing here. */
async function restartIfDead(cli: Cli, client: Waker, isNeeded: boolean): Promise<string | null> {
  // A server has its own.
  if ((await cli.services.server()) !== null) return null;
  try {
    const controller = await cli.services.controller();
    const { running, isOutdated, otherDatabase, silentSinceAt } = await controller.status();
    return running && !isOutdated && silentSinceAt === null && (otherDatabase === null || !isNeeded)
      ? null
      : await client.wake();
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    return [error.message, ...error.lines].join(' ');
  }
}

/**
 * Replaces a killed controller, so that any next command brings it back. A controller that exited or was stopped has
 * removed its file and is not replaced, unless a command left a wake request and ended (a second Ctrl-C) before it
 * could start one. With `isNeeded` a note says that the shown state is only the last observation.
 */
export async function restartIfKilled(cli: Cli, client: Waker, isNeeded = false): Promise<void> {
  if (await mayHaveBeenKilled(cli)) {
    const note = await restartIfDead(cli, client, isNeeded);
    if (note !== null) cli.note(note);
  } else if (isNeeded && !(await isControllerRunning(cli))) {
    cli.note('No controller runs, so this is the last known state. Start one: jobman controller start');
  }
}

/** The same for a screen that stays open: the note of the last check, or null. */
export function createControllerCheck(cli: Cli, client: Waker): (isNeeded: boolean) => Promise<string | null> {
  let checkedAt: Instant = Number.NEGATIVE_INFINITY;
  let note: string | null = null;
  return async (isNeeded) => {
    if (cli.io.now() - checkedAt < controllerCheckInterval) return note;
    checkedAt = cli.io.now();
    if (await mayHaveBeenKilled(cli)) note = await restartIfDead(cli, client, isNeeded);
    else note = isNeeded && !(await isControllerRunning(cli)) ? 'no controller runs: last known state' : null;
    return note;
  };
}

/** The reason why the database cannot be used now; null if it can. */
export async function databaseProblem({ services }: Cli): Promise<string | null> {
  try {
    await (await services.client()).whoAmI();
    return null;
  } catch (error) {
    if (error instanceof StoreError) return error.message.replace(' Nothing was changed.', '');
    throw error;
  }
}

export async function isControllerRunning({ services }: Cli): Promise<boolean> {
  return (await services.client()).isControllerRunning();
}

async function mayHaveBeenKilled({ services }: Cli): Promise<boolean> {
  if ((await services.server()) !== null) return false;
  const { home } = services;
  return existsSync(join(home, 'controller.json')) || hasWakeRequest(join(home, 'wake'));
}

function hasWakeRequest(folder: string): boolean {
  try {
    return readdirSync(folder).length > 0;
  } catch {
    return false;
  }
}
