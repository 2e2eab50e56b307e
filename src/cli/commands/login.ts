import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import { formatServer, localRemedies } from '../../app/server-in-use.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import type { LoginFlags } from '../table/flags.ts';

/** A project that only Google Cloud serves, for installations whose default is the TPU emulator. */
const anyProject = 'google';

/** The argument decides: the address of a server or a context, and without one Google Cloud. */
export async function login(cli: Cli, flags: LoginFlags & GlobalFlags, target: string | undefined): Promise<number> {
  if (target !== undefined) return (await import('./contexts.ts')).logIn(cli, flags, target);
  if (flags.name !== undefined || flags.tokenFile !== undefined)
    throw usageError('Which server? Give its address: jobman login https://jobman.example');
  const server = await cli.services.server();
  if (server !== null)
    throw usageError(
      `Without an address, \`jobman login\` checks the login of this machine to Google Cloud. The server in use is ${formatServer(server)}.`,
      [`To log in to that server again: jobman login ${server.url}`, ...localRemedies(server.chosenBy)],
    );
  return checkGoogleLogin(cli);
}

async function checkGoogleLogin(cli: Cli): Promise<number> {
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
