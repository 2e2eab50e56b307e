// The Harbor registry of the settings, with its login.

import { join } from 'node:path';
import { createAnswerCache } from '../files/answer-cache.ts';
import { exitCode, JobmanError } from '../app/errors.ts';
import type { ImagePort } from '../app/images.ts';
import type { Services } from '../app/services.ts';
import { createHarbor } from '../harbor/harbor.ts';
import { dockerLogin, type LoginResult } from '../harbor/docker-login.ts';
import { createHarborClient } from '../harbor/client.ts';
import type { RetryPolicy } from '../http/client.ts';

/** Sends no request yet. Rejects with JobmanError without a registry. `retry` lets a test retry sooner. */
export async function openImages(services: Services, retry?: RetryPolicy): Promise<ImagePort> {
  const { io, home } = services;
  const { harbor } = (await services.clusterSettings()).settings;
  if (harbor.url === null) {
    throw new JobmanError('The settings name no Harbor registry.', exitCode.usage, [
      `Set it in ${join(home, 'settings.json')}: { "harbor": { "url": "https://harbor.example.com", "project": "lab" } }`,
    ]);
  }
  const { user, password } = harbor;
  if (user !== null && password === null) {
    throw new JobmanError(`The settings have harbor.user (${user}) but no harbor.password.`, exitCode.usage, [
      'Set both, or neither to use the login of `docker login`.',
    ]);
  }
  const url = new URL(harbor.url);
  const base = url.origin + url.pathname.replace(/\/+$/, '').replace(/\/(api\/v2\.0|harbor)$/, '');
  const login = (): Promise<LoginResult> =>
    user === null || password === null
      ? dockerLogin(url.host, { env: io.env, userHome: io.userHome })
      : Promise.resolve({ login: { user, password }, problem: null });
  return createHarbor({
    client: createHarborClient({ base, caFile: harbor.caFile, login, env: io.env, retry }),
    base,
    project: harbor.project,
    user,
    cache: createAnswerCache(join(home, 'harbor')),
    now: () => io.now(),
  });
}
