import type { ServerFlags } from '../../app/services.ts';
import type { Cli } from '../context.ts';

export function server(cli: Cli, flags: ServerFlags): Promise<number> {
  return cli.services.serve(flags);
}
