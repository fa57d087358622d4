/**
 * `ADDRESS POOL exit|kill`: a client process that submits calls and ends before their replies. It is a process because
 * the tests are about its end.
 */
import { connect } from '../../../src/client/index.ts';
import { counter } from './counter-module.ts';

const [addr = '', pool = '', way] = process.argv.slice(2);
const session = await connect({ addr, secret: process.env['REMUSTER_AUTH_SECRET'] ?? '' });
const calls = session.pool(counter, pool);
const open = [calls.id(0).hold(300), calls.id(1).hold(300), calls.broadcast().hold(300), calls.id(0).add(1)];
for (const one of open) one.catch(() => undefined);
// The reply to a later request on the same connection proves that the calls above have arrived.
await session.echo(new Uint8Array(1));
process.stdout.write('submitted\n');
if (way === 'kill') process.kill(process.pid, 'SIGKILL');
process.exit(0);
