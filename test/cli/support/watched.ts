// A command that draws a live screen, for tests.

import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { eventually } from '../../support/eventually.ts';
import { run } from '../../support/output-schema.ts';
import type { CliHarness } from './harness.ts';

export interface Watched {
  readonly world: CliHarness;
  readonly ended: Promise<number>;
  /** The current screen. */
  readonly glass: () => readonly string[];
  readonly shows: (text: RegExp) => Promise<void>;
}

/** Runs the command in the world. `glass` reads the screen from its output. */
export function watched(
  t: TestContext,
  world: CliHarness,
  argv: readonly string[],
  glass: () => readonly string[],
): Watched {
  const ended = run(argv, world.services);
  // A test that fails must not leave a watch behind that never ends.
  t.after(() => world.signal());
  return {
    world,
    ended,
    glass,
    async shows(text) {
      const found = await eventually(() => text.test(glass().join('\n')));
      assert.ok(found, `${String(text)} is not on the screen:\n${glass().join('\n')}\n---\n${world.err()}`);
    },
  };
}
