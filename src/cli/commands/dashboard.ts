import { once } from 'node:events';
import { pathToFileURL } from 'node:url';
import type { Cli } from '../context.ts';
import { abortOnSignal } from '../interrupt.ts';
import type { DashboardFlags } from '../table/flags.ts';

/** Opens the dashboard of the server in use. Without a server, this process serves the pages until a signal. */
export async function dashboard(cli: Cli, flags: DashboardFlags): Promise<number> {
  const { services, io } = cli;
  const { machine } = await services.contexts();
  const wantsBrowser = flags.noBrowser !== true && io.stdout.isTerminal && machine.hasBrowser;
  const server = await services.server();
  if (server !== null) {
    const page = `${server.url}/jobs`;
    if (wantsBrowser) await machine.openBrowser(page);
    io.stdout.write(`The dashboard of the server is at ${page}\n`);
    return 0;
  }
  const own = await services.dashboard(flags.port ?? 0);
  const { signal, release } = abortOnSignal(cli);
  try {
    io.stdout.write(`The dashboard is at ${own.newAddress()}\n`);
    cli.printStderr('The address works once, for one browser. The dashboard ends with Ctrl-C; the jobs continue.');
    // Other users of this machine can read the arguments of a browser, so they must not contain the address.
    if (wantsBrowser) await machine.openBrowser(pathToFileURL(await own.writeOpeningPage()).href);
    if (!signal.aborted) await once(signal, 'abort');
    return 0;
  } finally {
    release();
    await own.close();
  }
}
