/**
 * The smallest load test: each user requests one page in a loop and checks the status.
 *
 *   remuster run examples/get.ts --env TARGET=http://127.0.0.1:8080 --vus 64 --duration 30s
 */
import { workflow } from 'remuster';

export const get = workflow('get', {
  vus: 64,
  duration: '10s',
  steps: {
    get: async (ctx) => ctx.check(await ctx.http.get(`${ctx.env.TARGET}/`), (response) => response.status === 200),
  },
});
