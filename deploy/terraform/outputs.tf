output "relay" {
  description = "Settings of outbox-relay."
  value = {
    RAIL_RELAY_SINKS        = "[eventbridge]"
    RAIL_RELAY_EVENT_BUS    = aws_cloudwatch_event_bus.rail.arn
    RAIL_RELAY_EVENT_SOURCE = var.event_source
  }
}

output "worker" {
  description = "Settings of railworker, and of railctl dlq."
  value = {
    RAIL_TRIGGER_SOURCE    = "sqs"
    RAIL_TRIGGER_QUEUE_URL = aws_sqs_queue.nudges.id
  }
}

output "policy_arns" {
  description = "Policies by role: relay, relay-sqs (sink sqs, without a bus), worker, operator."
  value       = { for role, p in aws_iam_policy.role : role => p.arn }
}

output "queue_arns" {
  description = "The queue of nudges and both dead-letter queues."
  value = {
    nudges       = aws_sqs_queue.nudges.arn
    dead_letters = aws_sqs_queue.dead_letters.arn
    undelivered  = aws_sqs_queue.undelivered.arn
  }
}

output "kms_statement" {
  description = "What the key policy of a key of your own must hold, so that EventBridge can encrypt."
  value       = templatefile("${path.module}/../policies/kms.json", local.arns)
}
