import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cleanFiles } from '../../src/app/clean.ts';
import type { JobFolders } from '../../src/app/ports.ts';
import { World, spec, tpu } from '../core/world.ts';
import { aMember } from '../support/builders.ts';

test('clean removes run folders from a TPU that is kept and exists, and names one that does not answer', async () => {
  const persistent = { ...tpu, ownership: 'persistent' as const };
  async function clean(
    world: World,
  ): Promise<readonly [asked: number, message: string, keepsFolder: boolean | undefined]> {
    world.runUntilRunning();
    world.exitAll(0);
    world.runUntilFinished();
    let asked = 0;
    let keepsFolder: boolean | undefined;
    const routes = async () => ({
      removeRunFolders: async () => {
        asked += 1;
        return ['worker 1: it refuses connections'];
      },
    });
    const folders: Pick<JobFolders, 'remove'> = {
      async remove(_job, options) {
        keepsFolder = options?.keepsFolder;
        return true;
      },
    };
    const { message } = await cleanFiles(
      folders,
      routes,
      world.job,
      aMember(world.job.owner),
      {},
      async () => undefined,
    );
    return [asked, message, keepsFolder];
  }
  const [asked, message, keepsFolder] = await clean(new World(spec({ capacity: persistent })));
  assert.deepEqual([asked, keepsFolder], [1, false]);
  assert.match(message, /here, but not those on worker 1: it refuses connections\. They are deleted with the TPU\./);
  assert.equal((await clean(new World()))[0], 0, 'deleted with its job');
});
