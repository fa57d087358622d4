/** Opens the connections of `ctx.http` on real sockets. For the program of a runner; everything else hands in its own. */
import type { OpenHttp } from '../definition/http-types.ts';
import { LoadHttpClient } from './load-http-client.ts';
import { dialSocket, latin1 } from './node-sockets.ts';

export const openHttp: OpenHttp = ({ clock }) => new LoadHttpClient({ clock, dial: dialSocket, latin1 });
