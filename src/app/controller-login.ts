// Controller login: what it means for a job of a shared home that the controller runs as another login.

import { runsCommandHere, secretRefsOf, type JobSpec } from '../core/model/spec.ts';

/** Clauses for the login that does not run the controller. Null: it does, or none runs yet. */
export function loginEffects(spec: JobSpec, controllerLogin: string | null): readonly string[] {
  if (controllerLogin === null) return [];
  const isSecretRead = secretRefsOf(spec).some(({ kind }) => kind === 'named' || kind === 'job');
  const controller = `the controller runs as the login ${controllerLogin}`;
  return [
    ...(runsCommandHere(spec) ? [`${controller}, so the program reads and writes files as ${controllerLogin}`] : []),
    ...(isSecretRead ? [`${controller}, which cannot read the secrets of your job`] : []),
  ];
}
