/** Opens `ctx.http` on real sockets: composes client and sockets. */
import type { OpenHttp } from '../definition/http-types.ts';
import { LoadHttpClient } from './load-http-client.ts';
import { dialSocket, latin1 } from './node-sockets.ts';

export const openHttp: OpenHttp = ({ clock }) => new LoadHttpClient({ clock, dial: dialSocket, latin1 });
