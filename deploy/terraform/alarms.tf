# Alarms on what only AWS can see. That a Brief is stale is seen in the ledger, by the
# rules of deploy/prometheus, whatever the queue says.

resource "aws_cloudwatch_metric_alarm" "age" {
  alarm_name          = "${var.name}-nudges-old"
  alarm_description   = "Nudges wait: no worker receives, or none can reach its ledger. docs/runbook.md, RailPublishedUnheard."
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateAgeOfOldestMessage"
  dimensions          = { QueueName = aws_sqs_queue.nudges.name }
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 5
  comparison_operator = "GreaterThanThreshold"
  threshold           = var.alarm_age_seconds
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_actions
  ok_actions          = var.alarm_actions
  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "letters" {
  for_each = {
    dead        = { queue = aws_sqs_queue.dead_letters.name, text = "Nudges that no worker could handle: railctl dlq list." }
    undelivered = { queue = aws_sqs_queue.undelivered.name, text = "EventBridge could not hand events to the queue. docs/runbook.md, RailPublishedUnheard." }
  }

  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = each.value.text
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateNumberOfMessagesVisible"
  dimensions          = { QueueName = each.value.queue }
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_actions
  ok_actions          = var.alarm_actions
  tags                = var.tags
}

# EventBridge sends this metric only when it is not zero.
resource "aws_cloudwatch_metric_alarm" "failed" {
  alarm_name          = "${var.name}-failed-invocations"
  alarm_description   = "EventBridge gave up on handing events to the queue. docs/runbook.md, RailPublishedUnheard."
  namespace           = "AWS/Events"
  metric_name         = "FailedInvocations"
  dimensions          = { EventBusName = aws_cloudwatch_event_bus.rail.name, RuleName = aws_cloudwatch_event_rule.nudges.name }
  statistic           = "Sum"
  period              = 60
  evaluation_periods  = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_actions
  ok_actions          = var.alarm_actions
  tags                = var.tags
}
