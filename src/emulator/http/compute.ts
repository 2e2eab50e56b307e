/**
 * The part of the Compute API that gcloud calls before it opens ssh: the project, whose metadata has the users' keys,
 * and the request of `gcloud compute project-info add-metadata`.
 */
import type { Hono } from 'hono';
import { CloudError } from '../wire/errors.ts';
import type { Data } from '../wire/messages.ts';
import { projectNumber } from '../world/node-requests.ts';
import type { ProjectRecord } from '../world/records.ts';
import type { World } from '../world/world.ts';
import { type Bindings, json, readBody } from './admin.ts';

export function addComputeRoutes(app: Hono<Bindings>, world: World): void {
  app.get('/compute/v1/projects/:project', (context) => json(200, computeProject(world, context.req.param('project'))));

  app.post('/compute/v1/projects/:project/setCommonInstanceMetadata', async (context) => {
    const body = await readBody(context);
    const reply = world.change(() => setProjectMetadata(world, context.req.param('project'), body));
    return json(200, reply);
  });

  const operation = '/compute/v1/projects/:project/global/operations/:operation';
  for (const [method, path] of [
    ['GET', operation],
    ['POST', `${operation}/wait`],
  ] as const) {
    app.on(method, path, (context) =>
      json(200, computeOperation(context.req.param('project') ?? '', context.req.param('operation') ?? '')),
    );
  }
}

/** Every project name exists, as in the rest of the emulator. */
function computeProject(world: World, project: string): Data {
  const record = world.projects.get(project);
  return {
    kind: 'compute#project',
    id: projectNumber(project),
    name: project,
    creationTimestamp: '2024-01-01T00:00:00.000-00:00',
    commonInstanceMetadata: {
      kind: 'compute#metadata',
      fingerprint: fingerprintOf(record),
      items: record?.items ?? [],
    },
    selfLink: `https://www.googleapis.com/compute/v1/projects/${project}`,
  };
}

/** Refuses an outdated fingerprint, so that concurrent changes do not overwrite each other. */
function setProjectMetadata(world: World, project: string, body: unknown): Data {
  const { fingerprint, items = [] } = (body ?? {}) as { fingerprint?: unknown; items?: unknown };
  if (!Array.isArray(items) || !items.every(isItem)) {
    throw new CloudError('INVALID_ARGUMENT', "Invalid value for field 'resource.items': each needs a key and a value.");
  }
  const before = world.projects.get(project);
  if (fingerprint !== undefined && fingerprint !== fingerprintOf(before)) throw staleFingerprint();
  world.projects.put(project, { name: project, items, changes: (before?.changes ?? 0) + 1 });
  return computeOperation(project, `operation-${world.now()}-${world.random.hex(13)}`);
}

function isItem(item: unknown): item is { key: string; value: string } {
  const { key, value } = (item ?? {}) as { key?: unknown; value?: unknown };
  return typeof key === 'string' && typeof value === 'string';
}

/** Compute returns 412, a status that the Cloud TPU API does not have. */
function staleFingerprint(): CloudError {
  return new CloudError('CONDITION_NOT_MET', 'Supplied fingerprint does not match current metadata fingerprint.');
}

function fingerprintOf(record: ProjectRecord | undefined): string {
  return Buffer.from(`metadata ${String(record?.changes ?? 0)}`).toString('base64');
}

/** Changes of a project finish at once, so every operation is DONE. */
function computeOperation(project: string, name: string): Data {
  return {
    kind: 'compute#operation',
    id: projectNumber(name),
    name,
    operationType: 'compute.projects.setCommonInstanceMetadata',
    status: 'DONE',
    progress: 100,
    targetLink: `https://www.googleapis.com/compute/v1/projects/${project}`,
    selfLink: `https://www.googleapis.com/compute/v1/projects/${project}/global/operations/${name}`,
  };
}
