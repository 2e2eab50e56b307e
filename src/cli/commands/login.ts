import { exitCode, JobmanError } from '../../app/errors.ts';
import type { Cli } from '../context.ts';

/** A project that only Google Cloud serves, for installations whose default is the TPU emulator. */
const anyProject = 'google';

export async function login(cli: Cli): Promise<number> {
  const { tpu } = await cli.services.settings();
  const project = tpu.project === null || tpu.project === 'emulator' ? null : tpu.project;
  try {
    await (await cli.services.client()).checkLogin(project ?? anyProject);
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    throw new JobmanError('There is no login to Google Cloud.', exitCode.unreachable, [
      ...error.lines,
      'gcloud auth application-default login      opens a browser and logs this machine in',
      'gcloud auth login                          works too, and is used by gcloud itself',
      'export GOOGLE_APPLICATION_CREDENTIALS=...  names the key file of a service account',
    ]);
  }
  const hint =
    project === null ? ' No project is set: jobman settings set tpu.project PROJECT' : ` Project: ${project}.`;
  cli.printResult({ project }, `This machine is logged in to Google Cloud.${hint}`);
  return exitCode.ok;
}
